package probe

// Levers are what the agent is to switch on in the script, which stays as it is. Each is optional, and the zero value
// touches nothing; the agent answers with an event `lever` for each that was asked for (evidence.Run.Levers).
type Levers struct {
	Batch      int `json:"batch,omitempty"`      // rows of a batch, 1 or more
	Accumulate int `json:"accumulate,omitempty"` // batches that make one update, 2 or more; the rows of an update stay
	// Longest: the longest batch of the data comes first.
	Longest bool `json:"longest,omitempty"`
	// Remedies are switched on by name: checkpoint, autocast, channels_last, smaller, foreach_off, fused_off.
	Remedies []string `json:"remedies,omitempty"`
	// MLX are limits of MLX's allocator, set when the script has imported it.
	MLX *MLXLimits `json:"mlx,omitempty"`
}

// MLXLimits are the bytes that mlx.core's set_memory_limit, set_cache_limit and set_wired_limit are given; nil: the one
// is left as it is. A cache of 0 keeps nothing.
type MLXLimits struct {
	Memory *int64 `json:"memory_limit,omitempty"`
	Cache  *int64 `json:"cache_limit,omitempty"`
	Wired  *int64 `json:"wired_limit,omitempty"`
}

// Remedies are the names that Levers.Remedies can hold.
func Remedies() []string {
	return []string{"checkpoint", "autocast", "channels_last", "smaller", "foreach_off", "fused_off"}
}

// asked says whether anything is to be switched on.
func (l *Levers) asked() bool {
	return l != nil && (l.Batch > 0 || l.Accumulate > 0 || l.Longest || len(l.Remedies) > 0 || l.MLX != nil)
}

// Recording is what the agent is to record of a training's first steps (docs/formats/steps.md). The script is seeded
// for it, and given the weights and batches of another recording where one is named.
type Recording struct {
	Out   string `json:"out"`            // folder to make, absolute
	From  string `json:"from,omitempty"` // another recording's folder, absolute
	Seed  int64  `json:"seed"`
	Steps int    `json:"steps"` // that make it whole, 1 or more
	Moved int    `json:"moved"` // 1: what is given is moved by one unit in the last place
}
