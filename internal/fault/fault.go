// Package fault carries, beside an error, a hint about what to do next and the exit status that it deserves.
package fault

import "errors"

// Exit statuses of assay. `assay run` passes the script's own status through; the statuses from 125 up are those with
// which env(1), timeout(1) and docker run say that the command itself never ran.
const (
	OK          = 0   // done
	Failed      = 1   // assay could not do it
	Usage       = 2   // the command line is wrong
	GateFailed  = 3   // done, and a check of it failed (doctor, fits, gate, verdict, run --policy)
	CannotTell  = 4   // done, and the evidence does not suffice for an answer (fits, gate, verdict, run --policy)
	NotStarted  = 125 // run: assay failed before the script was started
	NotRunnable = 126 // run: the command was found and could not be executed
	NotFound    = 127 // run: the command was not found
)

type fault struct {
	error
	hint string
	code int
}

func (f *fault) Unwrap() error { return f.error }

// Hint adds what to do next.
func Hint(err error, hint string) error {
	if err == nil {
		return nil
	}
	return &fault{error: err, hint: hint}
}

// Exit adds the exit status.
func Exit(err error, code int) error {
	if err == nil {
		return nil
	}
	return &fault{error: err, code: code}
}

// HintOf returns the outermost hint in the chain, or "". Of joined errors it is that of the first which has one.
func HintOf(err error) string {
	hint := ""
	walk(err, func(f *fault) bool { hint = f.hint; return hint != "" })
	return hint
}

// CodeOf returns the outermost exit status in the chain, of joined errors that of the first which has one; Failed where
// none was given, OK for nil.
func CodeOf(err error) int {
	if err == nil {
		return OK
	}
	code := 0
	walk(err, func(f *fault) bool { code = f.code; return code != 0 })
	if code == 0 {
		return Failed
	}
	return code
}

// walk shows what is wrapped and joined in an error to f, from the outside in, until f says that it has enough.
func walk(err error, f func(*fault) bool) bool {
	for err != nil {
		if f1, ok := err.(*fault); ok && f(f1) {
			return true
		}
		if joined, ok := err.(interface{ Unwrap() []error }); ok {
			for _, e := range joined.Unwrap() {
				if walk(e, f) {
					return true
				}
			}
			return false
		}
		err = errors.Unwrap(err)
	}
	return false
}
