"""Kinds of aten operations, by name: what a reading has to know of them."""

MOVES = frozenset(  # views, copies, choices and averages: linear, and without parameters
    "view _unsafe_view reshape _reshape_alias _reshape_copy transpose t permute unsqueeze squeeze "
    "expand slice select split split_with_sizes chunk unbind unsafe_split unsafe_chunk alias detach "
    "clone _to_copy to contiguous as_strided unfold flatten roll copy lift_fresh lift_fresh_copy "
    "index_select narrow pad constant_pad_nd movedim swapaxes native_dropout flip type_as pixel_shuffle "
    "pixel_unshuffle view_as expand_as index gather sum cat stack fill_diagonal slice_scatter mean "
    "adaptive_avg_pool2d _adaptive_avg_pool2d avg_pool2d avg_pool1d adaptive_avg_pool1d max_pool2d_with_indices "
    "repeat repeat_interleave where masked_fill index_copy scatter written".split())
SUMS = frozenset(
    "add sub rsub lerp addcmul index_add index_put scatter_add".split())
PRODUCTS = frozenset("mul div".split())
CONVOLUTIONS = frozenset("convolution _convolution mkldnn_convolution".split())
MATRIX_PRODUCTS = frozenset("mm addmm bmm baddbmm _grouped_mm mv linear addmv matmul dot".split())
CONTRACTIONS = MATRIX_PRODUCTS | CONVOLUTIONS
ATTENTIONS = frozenset(
    "_scaled_dot_product_flash_attention_for_cpu _scaled_dot_product_attention_math "
    "_scaled_dot_product_efficient_attention _scaled_dot_product_fused_attention_overrideable "
    "_scaled_dot_product_flash_attention _scaled_dot_product_cudnn_attention "
    "_scaled_dot_product_attention_math_for_mps scaled_dot_product_attention".split())
REDUCTIONS = frozenset("mean sum linalg_vector_norm norm var var_mean std".split())
LOOKUPS = frozenset(["embedding"])
SHAPES_ALONE = frozenset(  # of what they are given only shapes enter
    "zeros_like empty_like ones_like new_zeros new_empty new_ones full_like new_full rand_like randn_like".split())
FUSED_NORMS = {  # where weight, bias and eps stand among the arguments
    "native_layer_norm": (2, 3, 4), "_fused_rms_norm": (2, None, 3), "native_group_norm": (2, 3, 7),
    "native_batch_norm": (1, 2, 7), "_native_batch_norm_legit": (1, 2, 7), "_batch_norm_with_update": (1, 2, 6),
    "_native_batch_norm_legit_no_training": (1, 2, 6), "cudnn_batch_norm": (1, 2, 7), "batch_norm": (1, 2, 7)}
CHOICES = frozenset("topk sort argmax max".split())  # by size
BOUNDED = frozenset("sigmoid tanh _softmax softmax softplus exp".split())
