package weights

// maxSafetensorsHeader is how many bytes a header may have: MAX_HEADER_SIZE in safetensors' tensor.rs.
const maxSafetensorsHeader = 100_000_000

// metadataKey is the name in a header under which no tensor stands.
const metadataKey = "__metadata__"
