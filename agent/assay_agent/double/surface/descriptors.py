"""256 open files: what a shell on macOS hands down."""

__tracebackhide__ = True  # pytest leaves our frames out of what it prints


def install(double):
    import resource  # no module of every system

    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    if soft == resource.RLIM_INFINITY or soft > 256:
        resource.setrlimit(resource.RLIMIT_NOFILE, (256, hard))
