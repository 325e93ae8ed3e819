package python

import (
	"strings"

	"assay/internal/evidence"
)

// mlxGate says whether MLX computes on a GPU. What it computes is held against Python's own arithmetic. A Mac whose
// default device is the CPU fails; a system without Metal has nothing wrong with it, and what its CPU computes is said.
func mlxGate(in Interpreter, a gateAnswer) Gate {
	g := Gate{Name: "mlx", Basis: evidence.Measured}
	d, tried := a.device("mlx")
	if !tried {
		if a.common(&g, "mlx") {
			g.State, g.Detail = Unknown, "the matrix product was not tried"
		}
		return g
	}
	g.provenBy("mlx "+a.Version, d, "Python's arithmetic")
	if g.State != Pass || a.Kind == "gpu" {
		return g
	}
	g.State = Fail
	if in.Platform == "darwin" {
		g.Detail = "mlx " + a.Version + ": the default device is " + a.Default + ", not the GPU"
		g.Hint = "mx.set_default_device(mx.gpu), or an arm64 Python with a wheel for this macOS: mx.metal.is_available() says which"
		return g
	}
	g.Basis = evidence.Derived
	g.Detail = "no Metal on " + strings.TrimRight(in.Platform, "2") + "; " + g.Detail
	return g
}
