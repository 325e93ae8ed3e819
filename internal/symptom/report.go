package symptom

import "assay/internal/target"

// Schema names the version of the JSON form.
const Schema = "assay.explain/1"

// Report is what was found in one input.
type Report struct {
	Schema   string    `json:"schema"`
	Input    string    `json:"input"`
	Lines    int       `json:"lines"`               // that were read; 0 for a run
	Cut      int       `json:"cut_lines,omitempty"` // longer than is read
	Context  Context   `json:"context"`
	Symptoms []Symptom `json:"symptoms"` // errors first, then in the order in which they were met
	Unknown  []Unknown `json:"unknown"`  // lines that look like an error and that no rule knows
	More     int       `json:"unknown_not_listed,omitempty"`
	// for which release the answer is given, and why that one; absent where nothing is explained
	Aim *target.Aim `json:"aim,omitempty"`
}

// Context is what the input says of itself, as far as an explanation needs it.
type Context struct {
	Torch     string `json:"torch,omitempty"`
	MacOS     string `json:"macos,omitempty"`
	Batch     int    `json:"batch,omitempty"` // the last that was named before the first symptom that needs one
	BatchFrom string `json:"batch_from,omitempty"`
}

// Symptom is one rule that was met, with every line that met it.
type Symptom struct {
	Rule     string   `json:"rule"`
	Topic    string   `json:"topic,omitempty"`
	Severity string   `json:"severity"`
	Title    string   `json:"title"`
	Cause    string   `json:"cause"`
	Remedy   []string `json:"remedy"`
	Code     string   `json:"code,omitempty"`
	Releases []string `json:"releases,omitempty"`
	Source   string   `json:"source"`
	Claims   []string `json:"claims,omitempty"` // numbers of those that circulate about it: `assay claims N`
	Facts    []string `json:"facts,omitempty"`  // rows of the facts whose text this is: `assay ops NAME`
	Count    int      `json:"count"`
	Found    []Found  `json:"found"` // the first few
	After    bool     `json:"consequence,omitempty"`
	Likely   bool     `json:"likely,omitempty"` // the words are not this symptom's alone

	general bool
}

// Found is a line on which a symptom was met.
type Found struct {
	Line  int    `json:"line,omitempty"`  // 0: not a line of a log
	Place string `json:"place,omitempty"` // of the evidence
	Text  string `json:"text"`
	Where string `json:"where,omitempty"` // the user's innermost line in the traceback that the line ends
}

// Unknown is a line that looks like an error.
type Unknown struct {
	Found
	Count int `json:"count"`
}

// Known says whether something was explained.
func (r *Report) Known() bool { return len(r.Symptoms) > 0 }
