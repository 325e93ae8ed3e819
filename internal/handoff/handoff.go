// Package handoff smokes a bundle on the machine that it has come to, and says how that differs from where it came
// from.
package handoff
