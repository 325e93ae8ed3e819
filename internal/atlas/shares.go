package atlas

// OnCPU reports whether an operator in this state computes on the CPU where it computes at all: there is no kernel for
// it, or it is registered to run there.
func (s State) OnCPU() bool { return s == Missing || s == CPU }

// Called is how often one operator was called with tensors on the device, and what its calls came to.
type Called struct {
	State   State
	Calls   int
	Seconds *float64 // what they took the CPU of the machine at hand; nil: not timed
	FLOPs   *float64 // floating-point operations; nil: not counted
}

// Shares say which part of what was asked of a device falls to the CPU: calls of operators without a kernel, of all
// calls. A share lies between 0 and 1, and is nil where it is not known.
type Shares struct {
	Operators    int     // that were called
	Calls        int     // of all of them
	UnknownState int     // calls of operators of which the atlas does not know the state
	FLOPs        float64 // of all calls whose operations are counted
	Seconds      float64 // of all calls that were timed

	OfCalls *float64 // nil: nothing was called
	OfFLOPs *float64 // nil: none were counted
	OfTime  *float64 // nil: nothing was timed, or RefusedAtOnce
	// RefusedAtOnce: operators without a kernel were called, and took no time, since each was refused before it ran.
	RefusedAtOnce bool
}

// SharesOf adds up the operators of a rehearsal. It is the one place that does.
func SharesOf(operators []Called) Shares {
	var s Shares
	var calls int
	var flops, seconds float64
	for _, op := range operators {
		fell := op.State.OnCPU()
		s.Operators++
		s.Calls += op.Calls
		if fell {
			calls += op.Calls
		}
		if op.State == Unknown || op.State == Undefined {
			s.UnknownState += op.Calls
		}
		if op.FLOPs != nil {
			s.FLOPs += *op.FLOPs
			if fell {
				flops += *op.FLOPs
			}
		}
		if op.Seconds != nil {
			s.Seconds += *op.Seconds
			if fell {
				seconds += *op.Seconds
			}
		}
	}
	s.OfCalls, s.OfFLOPs = share(float64(calls), float64(s.Calls)), share(flops, s.FLOPs)
	s.RefusedAtOnce = calls > 0 && seconds == 0 && s.Seconds > 0
	if !s.RefusedAtOnce {
		s.OfTime = share(seconds, s.Seconds)
	}
	return s
}

// Part is the share of the operators' time that some seconds of it are; nil where nothing was timed.
func (s Shares) Part(seconds float64) *float64 { return share(seconds, s.Seconds) }

func share(part, whole float64) *float64 {
	if whole <= 0 {
		return nil
	}
	x := part / whole
	return &x
}
