import tensorflow as tf
from tensorflow import keras
from tensorflow.keras import layers, backend as K
from tensorflow.keras.layers import Conv2D

K.set_image_data_format("channels_first")  # sure: channels-first
inp = keras.Input((3, 32, 32))
x = Conv2D(8, 3, data_format="channels_first")(inp)  # sure: channels-first
FMT = "channels_first"
x = layers.MaxPooling2D(data_format=FMT)(x)  # sure: channels-first
tf.compat.v1.disable_eager_execution()  # sure: tensorflow-v1-graph
sess = tf.compat.v1.Session()  # sure: tensorflow-v1-graph
s = tf.signal.stft(x, 256, 128)  # suspect: tensorflow-complex
with tf.compat.v1.Session() as s2:  # sure: tensorflow-v1-graph
    pass
y = tf.nn.conv2d(x, x, 1, "SAME", data_format="NCHW")  # sure: channels-first


def restore(build):
    old = "channels_first" if keras.backend.image_data_format() == "channels_first" else None
    keras.backend.set_image_data_format("channels_last")
    build()
    if old:
        old = "channels_first"
        keras.backend.set_image_data_format(old)  # suspect: channels-first
