package evidence

// Computes names the framework that computes, and its release: the backend where there is one.
func (t Target) Computes() (name, release string) {
	if t.Backend != "" {
		return t.Backend, t.BackendRelease
	}
	return t.Framework, t.Release
}

func (t Target) computedBy(framework string) bool {
	name, _ := t.Computes()
	return name == framework
}

// With says with what the steps were computed: "torch 2.15.0", "keras 3.15.1 on jax 0.10.2"; "" where it is not known.
func (t Target) With() string {
	s := spaced(t.Framework, t.Release)
	if t.Backend != "" {
		s += " on " + spaced(t.Backend, t.BackendRelease)
	}
	return s
}

func spaced(name, release string) string {
	if release == "" {
		return name
	}
	return name + " " + release
}

// plugin names an Apple GPU that was reached by another framework than PyTorch or MLX: jax-mps, jax-metal,
// tensorflow-metal. Rules that speak of MPS mean PyTorch's. "" for any other device.
func (t Target) plugin() string {
	name, _ := t.Computes()
	if (name == "jax" || name == "tensorflow") && (t.Device == OnMPS || t.Device == "metal") {
		return name + "-" + t.Device
	}
	return ""
}
