package atlas

// reached is an operator that calls come to, directly or through composed ones.
type reached struct {
	Call        // sometimes only where it is for some inputs on every way
	state State // in the release
	calls []Call
}

// Reached lists the operators that a call of these comes to in a release of torch: those named, what composed ones
// call, and so on down to kernels, each once.
func (a *Atlas) Reached(torch Release, roots []Call) []Call {
	var list []Call
	for _, met := range a.reach(torch, roots) {
		list = append(list, met.Call)
	}
	return list
}

func (a *Atlas) reach(torch Release, roots []Call) []reached {
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
	var list []reached
	at := map[string]int{}
	var walk func(calls []Call, sometimes bool)
	walk = func(calls []Call, sometimes bool) {
		for _, c := range calls {
			maybe := sometimes || c.Sometimes
			i, again := at[c.Operator]
			switch {
			case again && (maybe || !list[i].Sometimes):
				continue
			case again:
				list[i].Sometimes = false
				walk(list[i].calls, maybe)
				continue
			}
			met := reached{Call: Call{c.Operator, maybe}, state: Unknown}
			op, known := a.Operator(c.Operator)
			switch {
			case known:
				met.state = op.At(columns[op.Package])
			case a.foreign(c.Operator):
				met.state = Missing
			}
			if met.state == Composed {
				met.calls = a.Calls(c.Operator)
				for _, way := range detours {
					if way.from == c.Operator {
						met.calls = append(way.without(met.calls), way.before...)
					}
				}
			}
			at[c.Operator] = len(list)
			list = append(list, met)
			walk(met.calls, maybe)
		}
	}
	walk(roots, false)
	return list
}
