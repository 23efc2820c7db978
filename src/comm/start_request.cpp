#include "comm/start_request.h"

namespace viaduct {

CommHandle start_request(Communicator& inner, const CommRequest& r) {
  switch (r.collective) {
    case Collective::all_reduce:
      return inner.all_reduce(r.in, r.op);
    case Collective::all_gather:
      return inner.all_gather(r.in, r.out);
    case Collective::reduce_scatter:
      return inner.reduce_scatter(r.in, r.out, r.op);
    case Collective::all_to_all:
      return inner.all_to_all(r.in, r.out, r.send_rows, r.receive_rows, r.order);
    case Collective::broadcast:
      return inner.broadcast(r.in, r.peer);
    case Collective::send:
      return inner.send(r.in, r.peer, r.flow);
    case Collective::receive:
      return inner.receive(r.out, r.peer, r.flow);
    case Collective::barrier:
      inner.barrier();
      break;
  }
  return {};
}

}  // namespace viaduct
