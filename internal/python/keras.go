package python

import (
	"fmt"
	"strings"

	"assay/internal/evidence"
)

// jaxMPSMinor: a wheel of jax-mps is built against the StableHLO of jaxlib's minor release that bears its own number
// (description of jax-mps on the package index).
const jaxMPSMinor = "description of jax-mps"

// lastJAXMetal is the last release of jax-metal, of October 2024 (its page on the package index).
const lastJAXMetal = "0.1.1"

// jaxGate says whether JAX computes on a GPU: through jax-mps on a Mac, through CUDA or ROCm elsewhere. What it
// computes is held against Python's own arithmetic.
func jaxGate(in Interpreter, packages []Package, a gateAnswer) Gate {
	g := Gate{Name: "jax", Basis: evidence.Measured}
	mps, metal := Named(packages, "jax-mps"), Named(packages, "jax-metal")
	d, tried := a.device("jax")
	if !tried && !a.common(&g, "jax") {
		if g.State == Fail {
			g.Hint = jaxPlugin(packages)
		}
		return g
	}
	if !tried {
		g.State, g.Detail = Unknown, "the matrix product was not tried"
		return g
	}
	what := "jax " + a.Version
	switch {
	case len(mps) > 0:
		what += " with jax-mps " + mps[0].Version
	case len(metal) > 0:
		what += " with jax-metal " + metal[0].Version
	}
	g.provenBy(what, d, "Python's arithmetic")
	platform := strings.ToLower(a.Default)
	switch {
	case g.State != Pass:
		g.Hint = jaxPlugin(packages)
	case platform != "cpu":
		g.Hint = jaxPlugin(packages)
		if platform == "metal" {
			g.Hint = "jax-metal is dead: its last release is " + lastJAXMetal + ", of October 2024; jax-mps is its successor in fact"
		}
	case in.Platform == "darwin":
		g.State, g.Detail = Fail, what+": the default device is the CPU"
		g.Hint = jaxPlugin(packages)
		if g.Hint == "" && len(mps) > 0 {
			g.Hint = "JAX_PLATFORMS=mps says why jax-mps is passed over"
		} else if g.Hint == "" {
			g.Hint = "jax-mps computes on the GPU: it needs Python 3.12 or later and the jaxlib of its own number"
		}
	default:
		g.State, g.Basis = Fail, evidence.Derived
		g.Detail = "JAX has no GPU here; " + g.Detail
	}
	return g
}

// jaxPlugin says what is known to be wrong with JAX's plug-ins for a Mac's GPU; "" where nothing is.
func jaxPlugin(packages []Package) string {
	mps, metal, lib := Named(packages, "jax-mps"), Named(packages, "jax-metal"), Named(packages, "jaxlib")
	switch {
	case len(mps) > 0 && len(lib) > 0 && minorOf(mps[0].Version) != minorOf(lib[0].Version):
		return fmt.Sprintf("jax-mps %s is made for jaxlib %s, and %s is installed (%s)", mps[0].Version,
			minorOf(mps[0].Version), lib[0].Version, jaxMPSMinor)
	case len(metal) > 0 && len(mps) == 0:
		return "jax-metal is dead: its last release is " + lastJAXMetal + ", of October 2024; take jax-mps"
	case len(metal) > 0:
		return "jax-metal is installed beside jax-mps, and is dead: uninstall it"
	}
	return ""
}

// kerasGate says whether Keras computes on a GPU through its backend. What it computes is held against Python's own
// arithmetic, and the device is the one that the result names.
func kerasGate(in Interpreter, packages []Package, a gateAnswer) Gate {
	g := Gate{Name: "keras", Basis: evidence.Measured}
	backend := a.Default
	d, tried := a.device("keras")
	if !tried {
		if a.common(&g, "keras") {
			g.State, g.Detail = Unknown, "the matrix product was not tried"
		} else if g.State == Fail {
			g.Hint = "KERAS_BACKEND, or backend in ~/.keras/keras.json, names what computes: torch, jax, tensorflow, " +
				"or mlx with keras-mlx; it has to be installed"
		}
		return g
	}
	what := "keras " + a.Version + " on " + backend
	if plugin := Named(packages, "keras-mlx"); backend == "mlx" && len(plugin) > 0 {
		what += " by keras-mlx " + plugin[0].Version
	}
	g.provenBy(what, d, "Python's arithmetic")
	if g.State != Pass || !strings.Contains(strings.ToLower(d.On), "cpu") {
		return g
	}
	g.State = Fail
	if in.Platform == "darwin" {
		g.Detail = what + ": it computes on " + d.On + ", not the GPU"
		g.Hint = map[string]string{
			"torch": "see the gate mps", "mlx": "see the gate mlx", "jax": "see the gate jax",
			"tensorflow": "see the gate tensorflow; KERAS_BACKEND=torch computes on MPS",
		}[backend]
		return g
	}
	g.Basis = evidence.Derived
	g.Detail = "no GPU for Keras here; " + g.Detail
	return g
}
