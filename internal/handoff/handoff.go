// Package handoff smokes a bundle on the machine that it has come to, and says how that differs from where it came
// from.
//
//	side.go      a side of the comparison: runs, and what is known of their machine
//	factors.go   the table of what two machines can differ by, a row a factor. Pure
//	debug.go     variables that leave debugging on
//	change.go    figures that are not the same, by more than noise. Pure
//	differ.go    holds one side against the other: differences, changes, which explain which, the status. Pure
//	plateau.go   whether memory goes on growing. Pure
//	smoke.go     the document: what a smoke is kept as
//	text.go      the same for a reader
package handoff
