package evidence

// Lever is what the agent answered to one lever of a trial (docs/levers.md): a change of the script's training that
// was asked for, its source being left as it is. One lever may have several answers, one for each place it was tried
// at: where any of them is not Done, the training is not wholly what was asked for.
type Lever struct {
	// batch, accumulate, longest, or a remedy: checkpoint, autocast, channels_last, foreach_off, fused_off
	Lever string `json:"lever"`
	Done  bool   `json:"done"`
	Where string `json:"where,omitempty"` // what was changed: DataLoader at train.py:12
	// rows of a batch before and after; of accumulate rows of an update and of a batch; of longest elements of the
	// shortest and of the longest row. 0: there are none
	From int64  `json:"from,omitempty"`
	To   int64  `json:"to,omitempty"`
	Why  string `json:"why,omitempty"`  // it was not done
	Note string `json:"note,omitempty"` // what a reader must know of it, done or not
}

// Reached is what of a training a run came to: of the memory that these take, a run that did not come to them says
// nothing. Both count from the first step on.
type Reached struct {
	// Evaluated: a model that trains was called with gradients off, or in evaluation mode; or a copy of it was, that
	// had been put into evaluation mode for it.
	Evaluated bool `json:"evaluated"`
	// Saved: torch.save or safetensors.torch.save_file was given as many numbers as the largest parameter has that
	// trains.
	Saved bool `json:"saved"`
}

// OutOfMemory is an exception for want of memory that passed through a call which is watched.
type OutOfMemory struct {
	Text  string `json:"text"`
	Where string `json:"where,omitempty"` // the user's file:line
	Count int    `json:"count"`
}
