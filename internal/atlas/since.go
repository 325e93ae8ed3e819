package atlas

// Since says in words from which release on an operator has a kernel, or that none has one; "" where the atlas does not
// know it.
func (a *Atlas) Since(operator string) string {
	op, ok := a.Operator(operator)
	if !ok {
		return ""
	}
	if from := op.NativeFrom(); from != "" {
		return "native from " + op.Package + " " + from + " on"
	}
	return "no release up to " + op.Columns[len(op.Columns)-1] + " has a kernel"
}
