package evidence

import "encoding/json"

// Phase is a part of a training step, as the hook that sees it declared it.
type Phase struct {
	Name  string `json:"name"`  // in the names of figures: split.NAME, share.NAME
	Title string `json:"title"` // for a reader
	Doc   string `json:"doc"`   // what it is, in a few words

	// Seconds are those of each listed step; 0 where the phase was not seen in it. They can be trusted on a CPU always, on an asynchronous
	// device where the step's kind is sync.
	Seconds []float64 `json:"seconds"`
}

// FormerPhases are those that events and documents do not name which were written while there was PyTorch alone. A run that names none
// has these.
func FormerPhases() []Phase {
	return []Phase{
		{Name: "data", Title: "data", Doc: "waiting for the loader"},
		{Name: "h2d", Title: "to device", Doc: "copies from host to device"},
		{Name: "forward", Title: "forward", Doc: "model and loss"},
		{Name: "backward", Title: "backward", Doc: "gradients"},
		{Name: "optimizer", Title: "optimizer", Doc: "parameter update"},
		{Name: "rest", Title: "rest", Doc: "the script's own code between"},
	}
}

// Phase returns the phase of that name, and whether there is one.
func (s StepSeries) Phase(name string) (Phase, bool) {
	for _, p := range s.Phases {
		if p.Name == name {
			return p, true
		}
	}
	return Phase{}, false
}

// UnmarshalJSON reads the table; of a document that names no phases, the former ones, each a column of its own.
func (s *StepSeries) UnmarshalJSON(data []byte) error {
	type table StepSeries
	var t table
	if err := json.Unmarshal(data, &t); err != nil {
		return err
	}
	if t.Phases == nil {
		var former struct {
			Data      []float64 `json:"data"`
			H2D       []float64 `json:"h2d"`
			Forward   []float64 `json:"forward"`
			Backward  []float64 `json:"backward"`
			Optimizer []float64 `json:"optimizer"`
			Rest      []float64 `json:"rest"`
		}
		if err := json.Unmarshal(data, &former); err != nil {
			return err
		}
		t.Phases = FormerPhases()
		for i, column := range [][]float64{former.Data, former.H2D, former.Forward, former.Backward, former.Optimizer, former.Rest} {
			if t.Phases[i].Seconds = column; column == nil {
				t.Phases[i].Seconds = []float64{}
			}
		}
	}
	*s = StepSeries(t)
	return nil
}
