"""First Python code of a watched process: starts the agent, then hands on to the sitecustomize that it shadows.

`site` imports this module because its folder stands first on PYTHONPATH. Whatever fails here is reported by the agent as a
line of evidence; the script goes on as it would without it.
"""


def _start():
    import os
    import sys

    here = os.path.dirname(os.path.abspath(__file__))
    sys.path[:] = [p for p in sys.path if os.path.abspath(p or ".") != here]
    try:
        import importlib.util

        root = os.path.join(os.path.dirname(here), "assay_agent")
        spec = importlib.util.spec_from_file_location(
            "assay_agent", os.path.join(root, "__init__.py"), submodule_search_locations=[root]
        )
        agent = importlib.util.module_from_spec(spec)
        sys.modules["assay_agent"] = agent
        spec.loader.exec_module(agent)
        agent.start()
    except Exception:  # a guest that cannot come in stays out
        sys.modules.pop("assay_agent", None)


def _hand_on():
    """Import the sitecustomize that this one hides; where there is none, end as if this one were not there either."""
    import sys

    sys.modules.pop("sitecustomize", None)
    import sitecustomize  # noqa: F401  (the folder of this file is no longer on sys.path)


try:
    _start()
finally:
    _hand_on()
