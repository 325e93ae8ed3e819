package weights

// A LeftOut is a tensor, or an array, that a file has and that cannot be given: its kind says why.
type LeftOut struct{ Name, Kind string }

// leave leaves a tensor out; a hundred of them tell as much as a million.
func (f *File) leave(name, kind string) {
	if len(f.Left) < 100 {
		f.Left = append(f.Left, LeftOut{name, kind})
	}
}
