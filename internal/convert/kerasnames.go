package convert

import (
	"slices"
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
	parts := strings.Split(folder, "/")
	folder = folded(folder)
	switch strings.TrimPrefix(last, parts[len(parts)-1]) {
	case "_W_1": // of Keras 1's files, as c1/c1_W_1
		last = "kernel"
	case "_b_1":
		last = "bias"
	}
	return folder + "/" + last
}

// folded is the path of a layer in a file that .save() wrote, LAYER/LAYER or LAYER/MODEL/LAYER, as its name.
func folded(path string) string {
	parts := strings.Split(path, "/")
	if n := len(parts); n == 3 && parts[0] == parts[2] {
		return parts[0]
	} else if n%2 == 0 && slices.Equal(parts[:n/2], parts[n/2:]) {
		return strings.Join(parts[:n/2], "/")
	}
	return path
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
