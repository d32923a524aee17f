# Runs one plugin in Python, whose file is the first argument. The gateway puts `LIBRARY` before this text: the
# module `drawgate_plugin`, for plugins that have not installed it.
import os
import runpy
import sys
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
runpy.run_path(main, run_name="__main__")
