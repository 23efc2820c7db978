"""Matrix products of BF16 and FP16 tensors, in a reasonable time on every CPU.

Where a CPU has instructions for such products, PyTorch multiplies exactly, sums in FP32 and rounds the result once. Elsewhere it uses plain
loops, fifty times slower. There `narrow_products()` computes the same by FP32 products of the widened tensors, forward and backward.
"""

import contextlib

import torch
from torch.utils._python_dispatch import TorchDispatchMode

PRODUCTS = {torch.ops.aten.mm.default, torch.ops.aten.addmm.default, torch.ops.aten.bmm.default, torch.ops.aten.baddbmm.default}


class WidenedProducts(TorchDispatchMode):
    def __torch_dispatch__(self, function, types, args=(), kwargs=None):
        kwargs = kwargs or {}
        narrow = args[-1].dtype if function in PRODUCTS else None
        if narrow not in (torch.bfloat16, torch.float16):
            return function(*args, **kwargs)
        return function(*(tensor.float() for tensor in args), **kwargs).to(narrow)


def narrow_products():
    """The context of a forward and its backward."""
    fast = torch.ops.mkldnn._is_mkldnn_bf16_supported()
    return contextlib.nullcontext() if fast else WidenedProducts()
