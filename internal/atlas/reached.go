package atlas

// Reached lists the operators that a call of these comes to in a release of torch: those named, what composed ones
// call, and so on down to kernels; each once, sometimes only where it is for some inputs on every way.
func (a *Atlas) Reached(torch Release, roots []Call) []Call {
	columns := map[string]string{}
	for _, pkg := range Packages {
		if r, ok := a.Beside(pkg, torch.Version); ok {
			columns[pkg] = r.Column
		}
	}
	detours := a.detours(torch.Version)
	for _, way := range detours {
		if way.from == "" && way.among(roots) {
			roots = way.without(roots)
		}
	}
	var list []Call
	at := map[string]int{}
	var walk func(calls []Call, sometimes bool)
	walk = func(calls []Call, sometimes bool) {
		for _, c := range calls {
			maybe := sometimes || c.Sometimes
			i, again := at[c.Operator]
			if again && (maybe || !list[i].Sometimes) {
				continue
			}
			if again {
				list[i].Sometimes = false
			} else {
				at[c.Operator] = len(list)
				list = append(list, Call{c.Operator, maybe})
			}
			op, known := a.Operator(c.Operator)
			if !known || op.At(columns[op.Package]) != Composed {
				continue
			}
			below := a.Calls(c.Operator)
			for _, way := range detours {
				if way.from == c.Operator {
					below = append(way.without(below), way.before...)
				}
			}
			walk(below, maybe)
		}
	}
	walk(roots, false)
	return list
}
