from probe import see
import numpy as np
import torch

see(np.zeros(3))  # array float64 sized
see(np.zeros(3, dtype=np.float32))  # array float32 sized
see(np.zeros(3, "int32"))  # array int32
see(np.full(3, 1))  # array sized
see(np.linspace(0, 1))  # array float64 sized
see(np.zeros(*shape))  # array
see(np.array([1, 2]))  # array int64 sized
see(np.array([1.5]))  # array float64 sized
see(np.array([np.zeros(3, dtype=np.float32)]))  # array float32 sized
see(np.array([1], dtype="float32"))  # array float32 sized
see(np.array([1], np.float16))  # array float16
see(np.asarray(torch.zeros(3)))  # array float32
see(np.array(unheard_of))  # array
see(np.arange(3))  # array int64
see(np.arange(0, 1, 0.5))  # array float64
see(np.random.randn(3))  # array float64 sized
see(np.random.randn())  # number soft
see(np.random.normal(0, 1))  # number soft
see(np.random.normal(0, 1, 5))  # array float64 sized
see(np.random.normal(0, 1, size=5))  # array float64 sized
see(np.random.normal(np.zeros(3), 1))  # unknown
see(np.random.uniform(low=means))  # unknown
see(np.random.randint(5))  # array int64
see(np.float32(1))  # unknown
see(np.sqrt(np.zeros(3)))  # array float64
see(np.concatenate([np.zeros(3, dtype=np.float32), other]))  # array float32
see(np.linalg.norm(x))  # unknown

a = np.zeros(3)
see(a.astype(np.float32))  # array float32
see(a.astype("float16"))  # array float16
see(a.mean())  # array float64
see(np.arange(3).mean())  # array float64
see(a.argmax())  # array int64
see(a.tolist())  # unknown
see(a.reshape(1, 3))  # array float64
see(a.T)  # array float64 sized
see(a.shape)  # unknown
see(a.dtype)  # dtype float64
see(a + 1)  # array float64
see(np.arange(3) / 2)  # array float64
see(np.arange(3) + a)  # array float64
see(np.ndarray.astype(a, np.float32))  # array
