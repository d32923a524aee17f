from drawgate_plugin import Plugin

p = Plugin("shout", "1.0.0")


@p.tool(
    "up",
    "Writes a text in upper case",
    {"type": "object", "properties": {"text": {"type": "string"}}, "required": ["text"]},
)
def up(ctx, args, meta):
    return args["text"].upper()


@p.hook("beforeCall")
def before_call(ctx, call):
    if call["arguments"].get("text") == call["arguments"].get("text", "").upper() != "":
        return {"refuse": "nobody needs to shout at this tool"}


p.run()
