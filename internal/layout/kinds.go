// Package layout says in which order a tensor of weights has its dimensions, and by what that is known.
//
// A layout is written in letters, outermost first: O outputs, I inputs, D H W the kernel's extent (K that of one
// dimension), M outputs for each input of a depthwise kernel, V rows of a table and E their width, N any vector.
package layout

import (
	"fmt"
	"slices"
	"strings"
)

// A Framework whose layouts are known; "" is none.
type Framework string

// The three between which files are converted. TensorFlow's layouts are Keras's.
const (
	Torch Framework = "torch"
	Keras Framework = "keras"
	MLX   Framework = "mlx"
)

// Frameworks in the order in which they are listed.
var Frameworks = []Framework{Torch, Keras, MLX}

// A Kind is what a tensor is in its module: it decides how the tensor is permuted.
type Kind string

// Kinds of tensors. Of a grouped convolution the kernel is that of a plain one whose inputs are those of one group.
const (
	Conv1D          Kind = "conv1d"
	Conv2D          Kind = "conv2d"
	Conv3D          Kind = "conv3d"
	ConvTranspose1D Kind = "conv-transpose1d"
	ConvTranspose2D Kind = "conv-transpose2d"
	ConvTranspose3D Kind = "conv-transpose3d"
	Depthwise1D     Kind = "depthwise1d"
	Depthwise2D     Kind = "depthwise2d"
	Dense           Kind = "dense"
	// DenseInOut is a dense layer that PyTorch's side keeps as in × out: Conv1D of transformers, as GPT-2 has it.
	DenseInOut Kind = "dense-in-out"
	Embedding  Kind = "embedding"
	Vector     Kind = "vector" // bias, a norm's scale or statistics: the same everywhere
	Plain      Kind = "plain"  // a parameter of any shape that is the same everywhere
)

// orders are the layouts by kind, for Torch, Keras and MLX. Sources: torch.nn.Conv2d and ConvTranspose2d (weight),
// keras.layers.Conv2D, Conv2DTranspose and DepthwiseConv2D (kernel), mlx.nn.Conv2d and ConvTranspose2d (weight), and
// the outputs of the three with one layer of each kind (TestLayersAreTheFrameworks).
var orders = map[Kind][3]string{
	Conv1D:          {"OIK", "KIO", "OKI"},
	Conv2D:          {"OIHW", "HWIO", "OHWI"},
	Conv3D:          {"OIDHW", "DHWIO", "ODHWI"},
	ConvTranspose1D: {"IOK", "KOI", "OKI"},
	ConvTranspose2D: {"IOHW", "HWOI", "OHWI"},
	ConvTranspose3D: {"IODHW", "DHWOI", "ODHWI"},
	Depthwise1D:     {"IMK", "KIM", "IMK"},
	Depthwise2D:     {"IMHW", "HWIM", "IMHW"},
	Dense:           {"OI", "IO", "OI"},
	DenseInOut:      {"IO", "IO", "OI"},
	Embedding:       {"VE", "VE", "VE"},
}

// Order of a kind in a framework; "" for what has the same order everywhere.
func Order(kind Kind, in Framework) string {
	i := slices.Index(Frameworks, in)
	if i < 0 {
		return ""
	}
	return orders[kind][i]
}

// Rank is the number of dimensions that a tensor of the kind has; 0 where it may be any.
func (k Kind) Rank() int {
	switch k {
	case Depthwise1D:
		return 3
	case Depthwise2D:
		return 4
	case Vector:
		return 1
	}
	return len(orders[k][0])
}

// Kernel says whether a kind is one of convolutions.
func (k Kind) Kernel() bool {
	return strings.HasPrefix(string(k), "conv") || strings.HasPrefix(string(k), "depthwise")
}

// Kinds that may be named by a user, in the order of a help text.
func Kinds() []string {
	return []string{"conv", "conv-transpose", "depthwise", "dense", "dense-in-out", "embedding", "plain"}
}

// ParseKind is the kind that a word of Kinds means for a tensor of this rank: "conv" is conv2d for four dimensions.
// False where a tensor of the rank cannot be one.
func ParseKind(word string, rank int) (Kind, bool) {
	switch word {
	case "conv", "conv-transpose", "depthwise":
		word += fmt.Sprintf("%dd", rank-2)
	case "plain":
		return Plain, true
	}
	kind := Kind(word)
	_, known := orders[kind]
	return kind, known && kind.Rank() == rank
}

// ParseFramework reads the name of a framework, or the layout of its kernels of two dimensions.
func ParseFramework(word string) (Framework, bool) {
	switch strings.ToLower(word) {
	case "torch", "pytorch", "pt", "oihw":
		return Torch, true
	case "keras", "tensorflow", "tf", "hwio":
		return Keras, true
	case "mlx", "ohwi":
		return MLX, true
	}
	return "", false
}
