#include "dedloc/tasks/torchscript/script_words.h"

#include <fmt/format.h>

namespace dedloc::tasks {

namespace {

// Operators of the namespace aten. A name with _ at its end writes in place and is allowed with the
// name without. Between spaces. What shows memory as it was before (empty) is not here: gradients
// would carry it away.
constexpr std::string_view aten_words =
    " Bool Float Int IntImplicit FloatImplicit ScalarImplicit __and__ __contains__ "
    "__derive_index __getitem__ __is__ __isnot__ __not__ __or__ __range_length "
    "__round_to_zero_floordiv __xor__ _convolution _pack_padded_sequence _pad_packed_sequence "
    "_set_item _transformer_encoder_layer_fwd _native_multi_head_attention abs acos acosh "
    "adaptive_avg_pool1d adaptive_avg_pool2d adaptive_avg_pool3d adaptive_max_pool1d "
    "adaptive_max_pool2d adaptive_max_pool3d add addbmm addcdiv addcmul addmm addmv "
    "affine_grid_generator all alpha_dropout amax amin any append arange argmax argmin "
    "argsort asin asinh atan atan2 atanh avg_pool1d avg_pool2d avg_pool3d baddbmm batch_norm "
    "bernoulli bilinear binary_cross_entropy binary_cross_entropy_with_logits bitwise_and "
    "bitwise_not bitwise_or bitwise_xor bmm broadcast_tensors broadcast_to bucketize cat "
    "cdist ceil celu channel_shuffle chunk clamp clamp_max clamp_min clone concat "
    "constant_pad_nd contiguous conv1d conv2d conv3d conv_transpose1d conv_transpose2d "
    "conv_transpose3d copy cos cosh cosine_embedding_loss cosine_similarity count_nonzero "
    "cross_entropy_loss cumprod cumsum detach diag diag_embed diagonal dim div dot dropout "
    "einsum elu embedding embedding_bag eq erf erfc exp expand expand_as expm1 extend eye "
    "feature_alpha_dropout feature_dropout fill flatten flip float_power floor floor_divide "
    "floordiv fmod fold format frac full full_like gather ge gelu get glu grid_sampler "
    "group_norm gru gru_cell gt hardshrink hardsigmoid hardswish hardtanh "
    "hinge_embedding_loss huber_loss im2col index index_add index_copy index_fill index_put "
    "index_select insert instance_norm is_floating_point isfinite isinf isnan item kl_div "
    "kthvalue l1_loss layer_norm le leaky_relu len lerp linalg_norm linalg_vector_norm linear "
    "linspace list log log10 log1p log2 log_sigmoid log_softmax logaddexp logical_and "
    "logical_not logical_or logical_xor logsumexp lstm lstm_cell lt margin_ranking_loss "
    "masked_fill masked_scatter masked_select matmul max max_pool1d max_pool2d max_pool3d "
    "maximum mean median meshgrid min minimum mish mm movedim mse_loss mul multi_margin_loss "
    "multilabel_margin_loss multinomial mv nan_to_num narrow native_layer_norm ne neg "
    "new_full new_ones new_zeros nll_loss nll_loss2d nll_loss_nd norm normal norm_except_dim "
    "numel one_hot ones ones_like outer pad pairwise_distance permute pixel_shuffle "
    "pixel_unshuffle poisson_nll_loss pow prelu prod rand rand_like randint randint_like "
    "randn randn_like randperm reciprocal relu relu6 remainder repeat repeat_interleave "
    "reshape reshape_as rms_norm rnn_relu rnn_tanh rnn_relu_cell rnn_tanh_cell roll round "
    "rrelu rsqrt rsub scalar_tensor scaled_dot_product_attention scatter scatter_add "
    "searchsorted select select_scatter selu sigmoid sign silu sin sinh size slice "
    "smooth_l1_loss soft_margin_loss softmax softplus softshrink sort split split_with_sizes "
    "sqrt square squeeze stack std std_mean stride sub sum t take take_along_dim tan tanh "
    "tensor tensor_split tensordot threshold tile to topk transpose tril triplet_margin_loss "
    "triu trunc type_as unbind unfold uniform unflatten unsqueeze upsample_bicubic2d "
    "upsample_bilinear2d upsample_linear1d upsample_nearest1d upsample_nearest2d "
    "upsample_nearest3d upsample_trilinear3d values var var_mean view view_as warn where zero "
    "zeros zeros_like ";

constexpr std::string_view prim_words =
    " AutogradZero CallFunction CallMethod Constant DictConstruct GetAttr If ListConstruct "
    "ListUnpack NumToTensor Param RaiseException Return TupleConstruct TupleIndex TupleSlice "
    "TupleUnpack Uninitialized abs data device dtype is_cuda isinstance layout max min "
    "requires_grad unchecked_cast unchecked_unwrap_optional ";

bool is_listed(std::string_view list, std::string_view name) {
    return list.find(fmt::format(" {} ", name)) != std::string_view::npos;
}

}  // namespace

bool is_allowed_operator(std::string_view name) {
    constexpr std::string_view aten = "aten::";
    constexpr std::string_view prim = "prim::";
    if (name.starts_with(prim)) return is_listed(prim_words, name.substr(prim.size()));
    if (!name.starts_with(aten)) return false;
    name.remove_prefix(aten.size());
    if (is_listed(aten_words, name)) return true;
    return name.ends_with('_') && !name.ends_with("__") &&
           is_listed(aten_words, name.substr(0, name.size() - 1));
}

}  // namespace dedloc::tasks
