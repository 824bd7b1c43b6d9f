//! Reductions of bytes that are elements.

use crate::collective::element::{Element, ElementType};
use crate::collective::reduction::{Operand, Reduction};

/// Reduces elements that are given as bytes, aligned as elements are.
pub(super) fn combine_bytes(
    reduction: Reduction,
    element: ElementType,
    operands: &[Operand<'_, u8>],
    output: &mut [u8],
    ranks: Option<usize>,
) {
    fn of<T: Element>(
        reduction: Reduction,
        operands: &[Operand<'_, u8>],
        output: &mut [u8],
        ranks: Option<usize>,
    ) {
        let operands: Vec<Operand<'_, T>> = operands
            .iter()
            .map(|operand| match operand {
                Operand::Output => Operand::Output,
                Operand::Array(bytes) => Operand::Array(bytemuck::cast_slice(bytes)),
            })
            .collect();
        reduction.combine(&operands, bytemuck::cast_slice_mut(output), ranks);
    }
    let combine = match element {
        ElementType::F32 => of::<f32>,
        ElementType::F64 => of::<f64>,
        ElementType::F16 => of::<half::f16>,
        ElementType::BF16 => of::<half::bf16>,
        ElementType::I32 => of::<i32>,
        ElementType::I64 => of::<i64>,
        ElementType::U8 => of::<u8>,
    };
    combine(reduction, operands, output, ranks);
}
