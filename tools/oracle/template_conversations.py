"""Conversations for templates_oracle.py: what people's chats contain, and what templates may stumble over."""

WEATHER = {"type": "function", "function": {
    "name": "get_weather", "description": "The weather of a place <now> & \"here\".",
    "parameters": {"type": "object", "properties": {
        "city": {"type": "string", "description": "Name of the city"},
        "unit": {"type": "string", "enum": ["celsius", "fahrenheit"]},
        "days": {"type": "integer", "default": 3},
        "nested": {"type": "object", "properties": {"x": {"type": "number"}, "list": {"type": "array", "items": {"type": "string"}}}}},
        "required": ["city"]}, "return": {"type": "string"}}}
CLOCK = {"type": "function", "function": {"name": "time", "description": "Die Uhrzeit in Zürich", "parameters": {"type": "object", "properties": {}}}}


def user(content):
    return {"role": "user", "content": content}


def assistant(content, **more):
    return {"role": "assistant", "content": content, **more}


def system(content):
    return {"role": "system", "content": content}


def call(name, arguments, identifier="abcdefgh1"):
    return {"id": identifier, "type": "function", "function": {"name": name, "arguments": arguments}}


TURNS = [system("You are terse."), user("Hello"), assistant("Hi!"), user("And now?"), assistant("Bye.")]
TOOL_TURNS = [user("Weather in Paris?"),
              assistant("", tool_calls=[call("get_weather", {"city": "Paris", "days": 2, "ratio": 0.5, "ok": True, "none": None})]),
              {"role": "tool", "content": "{\"degrees\": 21.5}", "tool_call_id": "abcdefgh1", "name": "get_weather"},
              assistant("21.5 degrees."), user("Thanks")]
TOKENS = {"bos_token": "<s>", "eos_token": "</s>", "pad_token": "<pad>", "unk_token": "<unk>"}


def case(messages, **more):
    return {"messages": messages, "tools": None, "documents": None, "add_generation_prompt": True, **TOKENS, **more}


CASES = [
    case([user("Hello")]),
    case([user("Hello")], add_generation_prompt=False),
    case(TURNS),
    case(TURNS, add_generation_prompt=False),
    case(TURNS[1:4]),
    case([user("  spaces around \n\n"), assistant("  answer with spaces \n "), user("\tnext\t")]),
    case([user("Grüße, 世界! 👩‍👩‍👧 é 'quote' \"double\" <b>&amp;</b> \\ back"), assistant("Ça va … 🎉"), user("ИТОГ ß")]),
    case([user("one"), user("two")]),
    case([user("one"), assistant("a"), assistant("b"), user("two")]),
    case([assistant("I begin"), user("ok")]),
    case([system("A"), system("B"), user("C")]),
    case([{"role": "user"}]),
    case([{"content": "no role"}]),
    case([user("q"), {"role": "assistant"}, user("r")]),
    case([user("")]),
    case([user("q"), assistant("", reasoning_content="let me think"), user("r")]),
    case([user("q"), assistant("the answer", reasoning_content="let me\nthink"), user("r"), assistant("s", reasoning_content="again")], add_generation_prompt=False),
    case([user("q"), assistant("<think>\nhidden\n</think>\n\nshown"), user("r"), assistant("<think></think>done")], add_generation_prompt=False),
    case([user("q"), assistant("<think>\nhidden\n</think>\n\nshown"), user("r")], enable_thinking=False),
    case([system("/think"), user("q")], enable_thinking=True),
    case([user("Weather?")], tools=[WEATHER]),
    case([system("S"), user("Weather?")], tools=[WEATHER, CLOCK]),
    case(TOOL_TURNS, tools=[WEATHER, CLOCK]),
    case(TOOL_TURNS[:3], tools=[WEATHER]),
    case(TOOL_TURNS[:2], tools=[WEATHER], add_generation_prompt=False),
    case(TOOL_TURNS),
    case([user("both"), assistant("I call.", tool_calls=[call("get_weather", {"city": "Zürich <&>"}), call("time", {}, "abcdefgh2")]),
          {"role": "tool", "content": "cold", "tool_call_id": "abcdefgh1"}, {"role": "tool", "content": "late", "tool_call_id": "abcdefgh2"}],
         tools=[WEATHER, CLOCK]),
    case([user("as text"), assistant(None, tool_calls=[call("get_weather", "{\"city\": \"Rome\"}")]),
          {"role": "tool", "content": "warm", "tool_call_id": "abcdefgh1"}], tools=[WEATHER]),
    case([user("list"), assistant("", tool_calls=[{"name": "get_weather", "arguments": {"city": "Oslo"}}]), {"role": "tool", "content": "rain"}], tools=[WEATHER]),
    case([user("think and call"), assistant("", reasoning_content="hm", tool_calls=[call("get_weather", {"a": [1, 2.0, 1e-7, 1e22], "b": {"c": None}})])],
         tools=[WEATHER], add_generation_prompt=False),
    case([user([{"type": "text", "text": "part one"}, {"type": "text", "text": "part two "}]), assistant([{"type": "text", "text": "answer"}])], add_generation_prompt=False),
    case([user([{"type": "image"}, {"type": "text", "text": "what is it?"}])]),
    case([system([{"type": "text", "text": "sys"}]), user("x")]),
    case([{"role": "developer", "content": "dev"}, user("x")]),
    case([{"role": "ipython", "content": "output"}, user("x")]),
    case([{"role": "narrator", "content": "unknown role"}]),
    case([user("with docs")], documents=[{"title": "T", "text": "body"}, {"title": "U", "text": "other"}]),
    case([user("no tokens")], bos_token=None, eos_token=None),
    case([user("tools empty")], tools=[]),
    case([user("date")], date_string="01 Jan 2025", custom_tools=[CLOCK], builtin_tools=["wolfram_alpha", "code_interpreter"], tools_in_user_message=False),
    case([user("low")], reasoning_effort="low", model_identity="I am new.", builtin_tools=["browser", "python"], tools=[WEATHER]),
    case([user("numbers"), assistant("x", tool_calls=[call("f", {"big": 12345678901234567, "neg": -0.0, "list": [], "map": {}, "t": "a\tb\n\"c\""})])], tools=[WEATHER], add_generation_prompt=False),
    case([user("name"), assistant("mine", name="bob"), {"role": "user", "content": "y", "name": "al"}]),
    case([user("last"), assistant("continue ")], add_generation_prompt=False, continue_final_message=False),
    case([user(f"turn {i}") if i % 2 == 0 else assistant(f"reply {i}") for i in range(11)]),
    case([user(7), assistant("number as content")]),
    case([user(None), assistant("none as content")]),
    case([{"role": "function", "name": "f", "content": "{}"}, user("x")]),
]
