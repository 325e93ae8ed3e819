package node

import "golang.org/x/sys/unix"

// bootSession is an identifier that the kernel draws at each start.
func bootSession() (string, error) { return unix.Sysctl("kern.bootsessionuuid") }
