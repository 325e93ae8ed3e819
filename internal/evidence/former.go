package evidence

import "encoding/json"

// Documents that were written while there was PyTorch alone name it where there is a framework now. They are read on.

// UnmarshalJSON reads a process; a former one has the release of PyTorch in a field of its own.
func (p *Process) UnmarshalJSON(data []byte) error {
	type process Process
	t := struct {
		*process
		Torch string `json:"torch"`
	}{process: (*process)(p)}
	if err := json.Unmarshal(data, &t); err != nil {
		return err
	}
	if p.Framework == "" && t.Torch != "" {
		p.Framework, p.Release = "torch", t.Torch
	}
	return nil
}

// UnmarshalJSON reads the provenance; a former one names PyTorch's build, and its release once more, which the target has.
func (p *Provenance) UnmarshalJSON(data []byte) error {
	type provenance Provenance
	t := struct {
		*provenance
		Build string `json:"torch_build"`
	}{provenance: (*provenance)(p)}
	if err := json.Unmarshal(data, &t); err != nil {
		return err
	}
	if p.Build == "" {
		p.Build = t.Build
	}
	return nil
}
