//go:build unix

package launch

import (
	"fmt"
	"os"
	"os/signal"
	"syscall"
)

// endByShell makes of this process a shell that ends itself by the signal, and with status 128 + n where that does not
// end it. Exec keeps the process and gives signals that were caught their default action back, which Go's runtime never
// does; where a signal was ignored when assay was started, Notify makes it one that is caught. It returns only where
// there is no shell.
func endByShell(s syscall.Signal) {
	_ = syscall.Setrlimit(syscall.RLIMIT_CORE, &syscall.Rlimit{}) // the script has made its own
	signal.Notify(make(chan os.Signal, 1), s)
	_ = syscall.Exec("/bin/sh", []string{"sh", "-c", fmt.Sprintf("kill -%d $$; exit %d", s, 128+s)},
		[]string{"PATH=/usr/bin:/bin"})
}
