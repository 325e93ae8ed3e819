package convert

import (
	"strconv"
	"strings"

	"assay/internal/weights"
)

// kerasKey is LAYER/PART of a tensor in a file of Keras's, whatever the kind of file: `model_weights/c1/c1/kernel:0`,
// `layers/conv2d/vars/0` whose layer the file names, `c1/kernel`. groups keeps the group as it is.
func kerasKey(f *weights.File, name string, groups bool) string {
	name, _, _ = strings.Cut(name, ":")
	group, layer := kerasLayer(f, name)
	if group != "" && !groups {
		rest := strings.TrimPrefix(name, group+"/")
		return layer + "/" + kerasPart(rest)
	}
	name = strings.TrimPrefix(name, "model_weights/")
	at := strings.LastIndex(name, "/vars/")
	if at >= 0 {
		return name[:at] + "/" + kerasPart(name[at+1:])
	}
	at = strings.LastIndex(name, "/")
	if at < 0 {
		return name
	}
	folder, last := name[:at], name[at+1:]
	// c1/c1/kernel, and c1/c1_W_1 of Keras 1's files
	parts := strings.Split(folder, "/")
	if n := len(parts); n%2 == 0 && strings.Join(parts[:n/2], "/") == strings.Join(parts[n/2:], "/") {
		folder = strings.Join(parts[:n/2], "/")
	}
	switch strings.TrimPrefix(last, parts[len(parts)-1]) {
	case "_W_1":
		last = "kernel"
	case "_b_1":
		last = "bias"
	}
	return folder + "/" + last
}

// kerasPart is a number behind vars/, or the name of a variable.
func kerasPart(rest string) string {
	last := rest[strings.LastIndex(rest, "/")+1:]
	if _, err := strconv.Atoi(last); err == nil {
		return "#" + last
	}
	return last
}

// kerasLayer is the group of a tensor in a file of Keras's and the name of its layer, "" where the file has none: it
// stands in the metadata as layer:GROUP.
func kerasLayer(f *weights.File, tensor string) (group, layer string) {
	for at := len(tensor); at > 0; at = strings.LastIndex(tensor[:at], "/") {
		if name, ok := f.Meta["layer:"+tensor[:at]]; ok {
			return tensor[:at], name
		}
	}
	return "", ""
}
