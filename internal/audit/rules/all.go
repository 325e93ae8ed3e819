// Package rules holds the audit's rules, a file each, and the list of them.
package rules

import (
	"assay/internal/audit"
)

// All are the rules, in the order of their pages.
//
// Tried and dropped:
//   - num-workers-not-zero: loaders with workers run on a Mac; what breaks them are the start method and what cannot
//
// be pickled, which have rules.
//   - grad-none-instead-of-zero-grad: zero_grad() sets gradients to None since PyTorch 2.0.
//   - channels-multiple-of-8: nobody has shown an effect on MPS.
//   - numpy-seed-in-workers: PyTorch seeds numpy in workers itself; a generator made once and shared has a rule.
var All = []*audit.Rule{
	MissingOperator, RefusedCall, WrongResult, SlowCall, Float64OnMPS, TypeNotOnMPS, MixedDevices,
	NumpyOfDeviceTensor, CUDACall, CUDADevice, CUDAFunction, CUDAAmp, CUDATensorType, CUDAPackage, CUDARequired,
	NCCLBackend, DistributedOnMPS, MPSNeverChosen,
	PinnedMemory, DeviceIndex,
	FallbackSwitchedOn, SetTooLate, Watermark, UnknownVariable, UnknownAPI, CompileBackend, StateDictMoved,
	ClipWithoutUnscale, ScalerWithoutUpdate, HalvedInputs, AccumulationUnscaled, RetainedGraph, EvaluationWithGradients,
	GeneratorManager,
	WorkersWithoutGuard, UnpicklableInWorkers, TooManyWorkers, SharedGenerator, ForkStart,
	SynchronisationInLoop, CacheFlushInLoop,
	UnsafePickle, CheckpointWithoutMap,
	ChannelsFirst, SessionGraph, ComplexOnMetal, MLXWithoutEval, MLXLayout,
	Requirement,
	audit.UnusedAllow, audit.BareAllow,
}
