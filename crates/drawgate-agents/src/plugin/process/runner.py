# Runs one plugin in Python, whose file is the first argument. The gateway puts `LIBRARY` before this text: the
# module `drawgate_plugin`, for plugins that have not installed it.
import os
import runpy
import sys
import traceback
import types

main = sys.argv[1]
sys.argv = [main]
sys.path[0] = os.path.dirname(main)
try:
    import drawgate_plugin
except ImportError:
    module = types.ModuleType("drawgate_plugin")
    exec(compile(LIBRARY, "drawgate_plugin.py", "exec"), module.__dict__)
    sys.modules["drawgate_plugin"] = module


def place(error):
    """The line of the plugin's own code that an error comes from."""
    if isinstance(error, SyntaxError) and error.filename:
        return error.filename, error.lineno
    folder = os.path.dirname(main)
    frames = traceback.extract_tb(error.__traceback__)
    own = [frame for frame in frames if frame.filename.startswith(folder + os.sep)]
    return (own[-1].filename, own[-1].lineno) if own else (main, 1)


try:
    runpy.run_path(main, run_name="__main__")
except Exception as error:
    traceback.print_exc()
    file, line = place(error)
    words = traceback.format_exception_only(type(error), error)[-1].strip()
    sys.exit("%s:%s: %s" % (os.path.relpath(file, os.path.dirname(main)), line, words))
