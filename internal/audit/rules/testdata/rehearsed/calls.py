"""What a rehearsal on the double of PyTorch 2.8 met, call by call: what raised there is found, and what ran is not."""
import numpy as np
import torch

x=torch.randn(4,4,device="mps")
torch.linalg.eig(x)  # sure: missing-operator
x=torch.randn(4,4,device="mps")
torch.linalg.svd(x)  # sure: slow-call
x=torch.randn(4,4,device="mps")
torch.linalg.qr(x)  # sure: missing-operator
x=torch.randn(4,4,device="mps")
torch.linalg.eigh(x@x.T)  # sure: missing-operator
x=torch.randn(4,4,device="mps")
torch.linalg.solve(x, x)
x=torch.randn(4,4,device="mps")
torch.linalg.lstsq(x, x)  # sure: missing-operator
x=torch.randn(4,4,device="mps")
torch.linalg.cholesky(x@x.T+torch.eye(4,device="mps"))
x=torch.randn(4,4,device="mps")
torch.linalg.matrix_exp(x)  # sure: missing-operator
x=torch.randn(4,4,device="mps")
torch.linalg.pinv(x)  # suspect: missing-operator
x=torch.randn(4,4,device="mps")
torch.linalg.det(x)
x=torch.randn(4,4,device="mps")
torch.linalg.cond(x)  # sure: missing-operator
x=torch.randn(4,4,device="mps")
torch.logdet(x@x.T)
x=torch.randn(10,device="mps")
torch.histc(x, bins=5)
x=torch.randn(10,device="mps")
torch.histogram(x, 5)
x=torch.randint(0,5,(10,),device="mps")
torch.bincount(x)
x=torch.randn(10,device="mps")
torch.quantile(x, 0.5)
x=torch.randn(10,device="mps")
torch.kthvalue(x, 3)  # sure: missing-operator
x=torch.randn(10,device="mps")
torch.mode(x)  # sure: missing-operator
x=torch.randn(10,device="mps")
torch.cummax(x, 0)
x=torch.randn(10,device="mps")
torch.logcumsumexp(x, 0)  # sure: missing-operator
x=torch.randn(10,device="mps")
torch.renorm(x.view(2,5), 2, 0, 1.0)
x=torch.randn(10,device="mps")
torch.special.i0(x)
torch.special.bessel_j0(x)
x=torch.randn(10,device="mps")
torch.lgamma(x)
torch.digamma(x)
torch.polygamma(2, x)
x=torch.randn(10,device="mps")
torch.igamma(x.abs(), x.abs())  # sure: missing-operator
x=torch.rand(10,device="mps")
torch.poisson(x)  # sure: missing-operator
a=torch.rand(3,device="mps")
torch.distributions.Gamma(a, a).sample()  # sure: missing-operator
a=torch.rand(3,device="mps")
torch.distributions.Dirichlet(a).sample()  # sure: missing-operator
a=torch.rand(3,device="mps")
torch.distributions.Beta(a, a).rsample()  # sure: missing-operator
a=torch.rand(3,device="mps")
torch.distributions.Categorical(a).sample()
a=torch.rand(3,device="mps")
torch.multinomial(a, 2)
x=torch.randn(2,3,8,8,8,device="mps")
torch.nn.functional.max_pool3d(x, 2)  # sure: missing-operator
x=torch.randn(2,3,8,8,8,device="mps")
torch.nn.functional.avg_pool3d(x, 2)  # sure: missing-operator
x=torch.randn(2,3,8,8,8,device="mps")
torch.nn.functional.adaptive_avg_pool3d(x, 2)  # sure: missing-operator
x=torch.randn(2,3,8,8,8,device="mps")
torch.nn.functional.adaptive_max_pool3d(x, 2)  # sure: missing-operator
x=torch.randn(2,3,8,8,8,device="mps")
torch.nn.functional.interpolate(x, scale_factor=2, mode="trilinear")
x=torch.randn(2,3,8,8,device="mps")
torch.nn.functional.interpolate(x, scale_factor=2, mode="bicubic")
x=torch.randn(2,3,8,8,8,device="mps")
torch.nn.Conv3d(3,4,3).to("mps")(x)
x=torch.randn(2,3,8,8,8,device="mps")
torch.nn.ConvTranspose3d(3,4,3).to("mps")(x)
x=torch.randn(2,3,8,8,device="mps")
torch.nn.functional.grid_sample(x, torch.zeros(2,4,4,2,device="mps"))  # suspect: missing-operator
x=torch.randn(2,3,8,8,device="mps")
torch.nn.functional.fold(torch.nn.functional.unfold(x, 2), (8,8), 2)
x=torch.randn(2,3,8,8,device="mps")
torch.nn.functional.fractional_max_pool2d(x, 2, output_size=4)  # sure: missing-operator
x=torch.randn(2,3,8,8,device="mps")
torch.nn.functional.max_unpool2d(*torch.nn.functional.max_pool2d(x, 2, return_indices=True), 2)  # sure: missing-operator
x=torch.randn(8,device="mps")
torch.fft.rfft(x)
x=torch.randn(8,device="mps")
torch.stft(x, 4, window=torch.hann_window(4,device="mps"), return_complex=True)
x=torch.randn(4,4,device="mps")
x.to_sparse()  # sure: missing-operator
x=torch.randn(3,device="mps")
y=torch.randn(3)
x+y  # sure: mixed-devices
x=torch.randn(3,device="mps")
torch.cat([x, torch.randn(3)])  # sure: mixed-devices
x=torch.randn(3,device="mps")
x.numpy()  # sure: numpy-of-device-tensor
torch.tensor(np.zeros(3), device="mps")  # sure: float64-on-mps
x=torch.arange(3, dtype=torch.float64).to("mps")  # sure: float64-on-mps
x=torch.randn(3,device="mps").double()  # sure: float64-on-mps
x=torch.randn(3,device="mps")
x.sum(dtype=torch.float64)  # sure: float64-on-mps
x=torch.randn(3,device="mps")
torch.cumsum(x, 0, dtype=torch.double)  # sure: float64-on-mps
x=torch.zeros(3,dtype=torch.complex128).to("mps")  # sure: dtype-not-on-mps
x=torch.zeros(3,dtype=torch.complex64).to("mps")
m=torch.nn.Linear(3,3).double().to("mps")  # sure: float64-on-mps
m=torch.nn.LSTM(3,4,proj_size=2).to("mps")
m(torch.randn(2,1,3,device="mps"))  # sure: refused-call
m=torch.nn.GRU(3,4).to("mps")
m(torch.randn(2,1,3,device="mps"))  # sure: slow-call
m=torch.nn.Transformer(8,2,1,1,16).to("mps")
m(torch.randn(3,1,8,device="mps"), torch.randn(3,1,8,device="mps"))
m=torch.nn.EmbeddingBag(10,3).to("mps")  # sure: missing-operator
m(torch.tensor([1,2],device="mps"), torch.tensor([0],device="mps"))
m=torch.nn.MultiheadAttention(8,2).to("mps")
m(*[torch.randn(3,1,8,device="mps")]*3)
m=torch.nn.Linear(3,3).to("mps")
m(torch.randn(2,3))  # sure: mixed-devices
m=torch.nn.CrossEntropyLoss()
m(torch.randn(2,3,device="mps"), torch.tensor([0,1]))  # sure: mixed-devices
m=torch.nn.MultiMarginLoss()  # sure: missing-operator
m(torch.randn(2,3,device="mps"), torch.tensor([0,1],device="mps"))
x=torch.randn(2,device="mps:1")  # sure: device-index
x=torch.randn(2).cuda()  # sure: cuda-call
x=torch.randn(2,device="cuda")  # sure: hard-coded-cuda-device
torch.cuda.synchronize()  # sure: cuda-function
torch.cuda.empty_cache()
torch.cuda.manual_seed_all(0)
torch.cuda.max_memory_allocated()
torch.cuda.reset_peak_memory_stats()  # sure: cuda-function
torch.cuda.get_device_name(0)  # sure: cuda-function
torch.cuda.Event(enable_timing=True)  # sure: cuda-function
torch.cuda.Stream()  # sure: cuda-function
torch.mps.memory_allocated()  # sure: unknown-mps-api
torch.mps.current_allocated_memory()
torch.mps.synchronize()
torch.mps.empty_cache()
torch.mps.set_per_process_memory_fraction(3.0)  # sure: variable-value
torch.Generator(device="cuda")  # sure: hard-coded-cuda-device
torch.Generator(device="mps").manual_seed(1)
torch.compile(torch.nn.Linear(2,2), backend="mps")(torch.randn(1,2))  # sure: compile-backend
s=torch.nn.Linear(2,2).state_dict()
s.to("mps")  # sure: state-dict-moved
x=torch.randn(6,device="mps").to(torch.float8_e4m3fn)  # sure: dtype-not-on-mps
x=torch.randn(6,device="mps").bfloat16()
x=torch.randn(4,device="mps")
torch.searchsorted(x.sort()[0], x)
x=torch.randn(4,4,device="mps")
torch.lu_solve(x, *torch.linalg.lu_factor(x))  # sure: missing-operator
x=torch.randn(4,4,device="mps")
torch.triangular_solve(x, x)
x=torch.randn(4,4,device="mps")
torch.ormqr(x, x[0], x)  # sure: missing-operator
x=torch.randn(4,4,device="mps")
x.geqrf()  # sure: missing-operator
x=torch.randn(4,4,device="mps")
torch.cdist(x, x, p=1.5)
x=torch.randn(4,4,device="mps")
torch.unique(x)  # suspect: missing-operator
torch.unique_consecutive(x)
x=torch.randn(4,4,device="mps")
torch.masked_select(x, x>0)
x.nonzero()
x.median()
x=torch.randn(4,4,device="mps")
x.index_add_(0, torch.tensor([0],device="mps"), x[:1])
x.index_reduce_(0, torch.tensor([0],device="mps"), x[:1], "prod")  # sure: missing-operator
x=torch.randn(4,4,device="mps")
x.scatter_reduce(0, torch.zeros(1,4,dtype=torch.long,device="mps"), x[:1], "amax")
x=torch.randn(4,4,device="mps")
torch.frexp(x)  # sure: missing-operator
torch.nextafter(x, x)
torch.heaviside(x, x)  # sure: missing-operator
torch.hypot(x, x)
x=torch.randn(4,4,device="mps")
torch.erfinv(x)
torch.sinc(x)
torch.xlogy(x,x)
torch.copysign(x,x)
torch.gcd(x.int(), x.int())  # sure: missing-operator
x=torch.zeros(3,dtype=torch.complex128,device="mps")  # sure: dtype-not-on-mps
x=torch.ones(3,dtype=torch.complex128,device="mps")  # sure: dtype-not-on-mps
x=torch.randn(3,dtype=torch.complex128,device="mps")  # sure: dtype-not-on-mps
x=torch.tensor([1+2j],dtype=torch.complex128,device="mps")  # sure: dtype-not-on-mps
x=torch.randn(3).to(torch.float8_e4m3fn).to("mps")  # sure: dtype-not-on-mps
x=torch.zeros(3,dtype=torch.float8_e5m2,device="mps")  # sure: dtype-not-on-mps
x=torch.empty(3,dtype=torch.float8_e5m2,device="mps")  # sure: dtype-not-on-mps
x=torch.randn(3,device="mps").to(torch.complex128)  # sure: dtype-not-on-mps
x=torch.randn(3,device="mps").type(torch.float64)  # sure: float64-on-mps
x=torch.randn(3,device="mps").to(torch.complex64)
x=torch.arange(3,device="mps").float().numpy()  # sure: numpy-of-device-tensor
x=torch.zeros_like(torch.randn(3,device="mps"),dtype=torch.float64)  # sure: float64-on-mps
x=torch.randn(3,device="mps").new_zeros(3,dtype=torch.float64)  # sure: float64-on-mps
x=torch.nn.functional.softmax(torch.randn(3,device="mps"),0,dtype=torch.float64)  # sure: float64-on-mps
x=torch.tensor(3.0,dtype=torch.float64)
y=torch.randn(3,device="mps")*x
x=torch.randn(3,device="mps")*torch.tensor(2.0)
x=torch.where(torch.tensor([True],device="mps"), torch.randn(3,device="mps"), 0.0)
x=torch.randn(3,device="mps")*np.float64(2.0)
x=torch.randn(3,device="mps")*np.array([1.0,2.0,3.0])  # sure: numpy-of-device-tensor
x=torch.randn(3,device="mps")
np.asarray(x)  # sure: numpy-of-device-tensor
x=torch.randn(3,device="mps")
y=x[torch.tensor([0,1])]
x=torch.randn(3,device="mps")
x[torch.tensor([0,1])] = torch.zeros(2)
x=torch.randn(3,device="mps")
m=torch.tensor([True,False,True])
x[m]
e=torch.nn.Embedding(4,3).to("mps")
e(torch.tensor([1,2]))  # sure: mixed-devices
x=torch.randn(3,3,device="mps")
torch.matmul(x, torch.randn(3,3))  # sure: mixed-devices
x=torch.randn(3,3,device="mps")
x @ torch.randn(3,3)  # sure: mixed-devices
x=torch.randn(3,device="mps")
torch.stack([x, torch.randn(3)])  # sure: mixed-devices
x=torch.randn(3,device="mps")
x.add_(torch.randn(3))  # sure: mixed-devices
x=torch.randn(3,device="mps")
x.copy_(torch.randn(3))
x=torch.randn(3,device="mps")
torch.where(x>0, x, torch.zeros(3))  # sure: mixed-devices
x=torch.randn(3,device="mps")
torch.nn.functional.mse_loss(x, torch.zeros(3))  # sure: mixed-devices
x=torch.randn(3,device="mps")
torch.dot(x, torch.zeros(3))  # sure: mixed-devices
x=torch.randn(3,device="mps")
torch.einsum("i,i->", x, torch.zeros(3))  # sure: mixed-devices
x=torch.randn(3,device="mps")
torch.max(x, torch.zeros(3))  # sure: mixed-devices
x=torch.randn(3,device="mps")
x.lerp(torch.zeros(3), 0.5)  # sure: mixed-devices
x=torch.randn(3,device="mps")
(x > torch.zeros(3)).any()  # sure: mixed-devices
x=torch.randn(3,device="mps")
x.masked_fill(torch.tensor([True,False,True]), 0)  # sure: mixed-devices
x=torch.randn(3,3,device="mps")
x.gather(0, torch.zeros(1,3,dtype=torch.long))  # sure: mixed-devices
g=torch.Generator().manual_seed(1)
torch.randn(3, generator=g, device="mps")  # sure: mixed-devices
g=torch.Generator(device="mps").manual_seed(1)
torch.randn(3, generator=g)  # sure: mixed-devices
x=torch.randn(3,device="mps")
torch.from_numpy(x.cpu().numpy()).to("mps")
torch.amp.GradScaler("mps")
torch.cuda.amp.GradScaler()  # sure: cuda-amp
torch.load("/nonexistent.pt", map_location="cuda")  # sure: hard-coded-cuda-device
torch.nn.Linear(3,3,device="cuda")  # sure: hard-coded-cuda-device
torch.nn.Linear(3,3).to("cuda:0")  # sure: hard-coded-cuda-device
torch.device("cuda")
torch.cuda.set_device(0)  # sure: cuda-function
torch.cuda.current_device()  # sure: cuda-function
torch.cuda.get_rng_state()  # sure: cuda-function
torch.cuda.memory_summary()  # sure: cuda-function
torch.cuda.mem_get_info()  # sure: cuda-function
torch.cuda.ipc_collect()  # sure: cuda-function
torch.cuda.nvtx.range_push("x")  # sure: cuda-function
torch.backends.cuda.matmul.allow_tf32 = True
torch.backends.cudnn.benchmark = True
torch.cuda.is_bf16_supported()
torch.cuda.device_count()
torch.cuda.memory_allocated()
torch.nn.DataParallel(torch.nn.Linear(2,2).to("mps"))(torch.randn(2,2,device="mps"))
torch.zeros(3).pin_memory()  # sure: pinned-memory
x=torch.randn(3,device="mps").storage()
x=torch.randn(4,4,device="mps")
torch.svd(x)  # sure: slow-call
torch.symeig if hasattr(torch,"symeig") else 0
x=torch.randn(4,4,device="mps")
x.inverse()
torch.inverse(x)
x=torch.randn(4,4,device="mps")
torch.trapz(x)
torch.diff(x)
torch.roll(x,1)
torch.rot90(x)
torch.tril(x)
torch.kron(x,x)
x=torch.randn(1,4,4,device="mps")
torch.nn.functional.pad(x, (1,1), mode="reflect")
torch.nn.functional.pixel_shuffle(torch.randn(1,4,2,2,device="mps"),2)
x=torch.randn(4,3,device="mps")
x.index_select(0, torch.tensor([0,1]))  # sure: mixed-devices
x=torch.randn(4,3,device="mps")
x.scatter_(0, torch.tensor([[0,1,1]]), x)  # sure: mixed-devices
x=torch.randn(4,3,device="mps")
torch.quantile(x, torch.tensor([0.5]))  # sure: mixed-devices
x=torch.randn(4,3,device="mps")
torch.addmm(torch.zeros(4,4), x, x.T)  # sure: mixed-devices
x=torch.randn(4,3,device="mps")
torch.equal(x, torch.zeros(4,3))
x=torch.randn(4,3,device="mps")
torch.allclose(x, torch.zeros(4,3))  # sure: mixed-devices
x=torch.randn(4,3,device="mps")
x.expand_as(torch.zeros(4,3))
x.view_as(torch.zeros(4,3))
x.type_as(torch.zeros(1))
x=torch.randn(4,3,device="mps")
torch.maximum(x, torch.zeros(4,3))  # sure: mixed-devices
x=torch.randn(4,3,device="mps")
torch.cdist(x, torch.zeros(4,3))  # sure: mixed-devices
x=torch.randn(4,3,device="mps")
torch.nn.functional.cosine_similarity(x, torch.zeros(4,3))  # sure: mixed-devices
x=torch.randn(4,3,device="mps")
torch.nn.functional.cross_entropy(x, torch.zeros(4,dtype=torch.long))  # sure: mixed-devices
x=torch.randn(4,3,device="mps")
torch.nn.functional.embedding(torch.tensor([0,1]), x)  # sure: mixed-devices
x=torch.randn(4,3,device="mps")
torch.nn.functional.linear(x, torch.zeros(2,3))  # sure: mixed-devices
x=torch.randn(1,3,4,4,device="mps")
torch.nn.functional.conv2d(x, torch.zeros(2,3,3,3))  # sure: mixed-devices
x=torch.randn(16,device="mps")
torch.stft(x, 4, window=torch.hann_window(4), return_complex=True)  # sure: mixed-devices
x=torch.randn(16,device="mps")
torch.fft.fft(x).to("cpu")
x=torch.randn(4,3,device="mps")
x.masked_select(torch.ones(4,3,dtype=torch.bool))  # sure: mixed-devices
x=torch.randn(4,3,device="mps")
x.index_add_(0, torch.tensor([0]), torch.zeros(1,3))  # sure: mixed-devices
x=torch.randn(4,3,device="mps")
x.clamp(min=torch.zeros(3))  # sure: mixed-devices
x=torch.randn(4,3,device="mps")
x /= torch.ones(3)  # sure: mixed-devices
x=torch.randn(4,3,device="mps")
x.mul(torch.ones(3))  # sure: mixed-devices
x=torch.randn(4,3,device="mps")
x.pow(torch.ones(3))  # sure: mixed-devices
x=torch.randn(4,3,device="mps")
torch.outer(x[0], torch.ones(3))  # sure: mixed-devices
enc = torch.nn.TransformerEncoder(torch.nn.TransformerEncoderLayer(8, 2, 16, batch_first=True), 1).to("mps").eval()  # suspect: missing-operator
enc(torch.randn(2, 3, 8, device="mps"), src_key_padding_mask=torch.zeros(2, 3, dtype=torch.bool, device="mps"))
same = torch.nn.TransformerEncoder(torch.nn.TransformerEncoderLayer(8, 2, 16, batch_first=True), 1).to("mps").eval()
same(torch.randn(2, 3, 8, device="mps"))
