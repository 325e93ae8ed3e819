"""What the agent has to know of a framework: an Adapter, `ADAPTER` in a folder beside this file that bears the name of
the module which scripts import."""


class Adapter:
    """A framework. Its hooks declare the phases that they see (Timeline.phase), and name the device that trains
    (Timeline.use)."""

    # Modules, in the order in which they are installed: each has install(framework, config), called once when the
    # framework has been imported, and may have clear(), by which a forked child forgets what its parent gathered.
    hooks = ()
    # Those of them that are installed where no training is measured as well: in a suite of tests.
    always = ()

    def version(self, framework):
        """Its release."""
        return str(framework.__version__)

    def build(self, framework):
        """What else there is to say of it: further fields of the event `framework`."""
        return {}

    def prepare(self, framework, config):
        """Called before the first hook is installed. Where it fails, none is."""
