//! Views of rows of floats that lie `stride` apart, as the pixels of a feature map whose channels are
//! read or written in part.

use std::marker::PhantomData;
use std::slice::{from_raw_parts, from_raw_parts_mut};

/// Rows that are read.
#[derive(Clone, Copy)]
pub struct Matrix<'a> {
    start: *const f32,
    rows: usize,
    stride: usize,
    width: usize,
    memory: PhantomData<&'a [f32]>,
}

/// Rows that are written.
pub struct MatrixMut<'a> {
    start: *mut f32,
    rows: usize,
    stride: usize,
    width: usize,
    memory: PhantomData<&'a mut [f32]>,
}

/// Floats that several threads read and write at the same time, each in places of its own.
#[derive(Clone, Copy)]
pub struct Shared<'a> {
    start: *mut f32,
    floats: usize,
    memory: PhantomData<&'a mut [f32]>,
}

// SAFETY: as a shared slice.
unsafe impl Send for Matrix<'_> {}
// SAFETY: as a shared slice.
unsafe impl Sync for Matrix<'_> {}
// SAFETY: the places that a thread may use are a contract of the methods.
unsafe impl Send for Shared<'_> {}
// SAFETY: as above.
unsafe impl Sync for Shared<'_> {}

fn floats(rows: usize, stride: usize, width: usize) -> usize {
    assert!(width <= stride, "rows overlap");
    rows.checked_sub(1).map_or(0, |last| last * stride + width)
}

impl<'a> Matrix<'a> {
    /// Rows of `width` floats, the first at the start of `values`.
    pub fn new(values: &'a [f32], rows: usize, stride: usize, width: usize) -> Self {
        assert!(floats(rows, stride, width) <= values.len());
        Self {
            start: values.as_ptr(),
            rows,
            stride,
            width,
            memory: PhantomData,
        }
    }

    pub fn rows(&self) -> usize {
        self.rows
    }

    pub fn width(&self) -> usize {
        self.width
    }

    #[inline(always)]
    pub fn row(&self, row: usize) -> &'a [f32] {
        assert!(row < self.rows);
        // SAFETY: the row lies in the memory that the view was made of, which nothing writes.
        unsafe { from_raw_parts(self.start.add(row * self.stride), self.width) }
    }
}

impl<'a> MatrixMut<'a> {
    /// Rows of `width` floats, the first at the start of `values`.
    pub fn new(values: &'a mut [f32], rows: usize, stride: usize, width: usize) -> Self {
        assert!(floats(rows, stride, width) <= values.len());
        Self {
            start: values.as_mut_ptr(),
            rows,
            stride,
            width,
            memory: PhantomData,
        }
    }

    pub fn rows(&self) -> usize {
        self.rows
    }

    pub fn width(&self) -> usize {
        self.width
    }

    /// The same rows, to read.
    pub fn as_ref(&self) -> Matrix<'_> {
        Matrix {
            start: self.start,
            rows: self.rows,
            stride: self.stride,
            width: self.width,
            memory: PhantomData,
        }
    }

    #[inline(always)]
    pub fn row(&mut self, row: usize) -> &mut [f32] {
        assert!(row < self.rows);
        // SAFETY: the row lies in the memory that the view was made of, which is its own.
        unsafe { from_raw_parts_mut(self.start.add(row * self.stride), self.width) }
    }
}

impl<'a> Shared<'a> {
    /// `values`, until the view is gone.
    pub fn new(values: &'a mut [f32]) -> Self {
        Self {
            start: values.as_mut_ptr(),
            floats: values.len(),
            memory: PhantomData,
        }
    }

    /// The memory at `start`.
    ///
    /// # Safety
    ///
    /// `floats` initialised floats are there for all of `'a`; while a view of some is used, they are
    /// used by nothing else, or by nothing that writes if the view only reads.
    pub unsafe fn from_raw(start: *mut f32, floats: usize) -> Self {
        Self {
            start,
            floats,
            memory: PhantomData,
        }
    }

    /// The first `floats` behind `at`.
    ///
    /// # Safety
    ///
    /// Nothing writes them while the slice is used.
    pub unsafe fn slice(self, at: usize, floats: usize) -> &'a [f32] {
        assert!(at + floats <= self.floats);
        // SAFETY: inside the memory, which the caller says nothing writes here.
        unsafe { from_raw_parts(self.start.add(at), floats) }
    }

    /// The first `floats` behind `at`, to write.
    ///
    /// # Safety
    ///
    /// Nothing else reads or writes them while the slice is used.
    pub unsafe fn slice_mut(self, at: usize, floats: usize) -> &'a mut [f32] {
        assert!(at + floats <= self.floats);
        // SAFETY: inside the memory, which the caller says is its own here.
        unsafe { from_raw_parts_mut(self.start.add(at), floats) }
    }

    /// Rows of which the first begins at `at`.
    ///
    /// # Safety
    ///
    /// Nothing writes the rows while the view is used.
    pub unsafe fn matrix(self, at: usize, rows: usize, stride: usize, width: usize) -> Matrix<'a> {
        assert!(at + floats(rows, stride, width) <= self.floats);
        Matrix {
            // SAFETY: inside the memory.
            start: unsafe { self.start.add(at) },
            rows,
            stride,
            width,
            memory: PhantomData,
        }
    }

    /// Rows to write, of which the first begins at `at`.
    ///
    /// # Safety
    ///
    /// Nothing else reads or writes the rows while the view is used.
    pub unsafe fn matrix_mut(
        self,
        at: usize,
        rows: usize,
        stride: usize,
        width: usize,
    ) -> MatrixMut<'a> {
        assert!(at + floats(rows, stride, width) <= self.floats);
        MatrixMut {
            // SAFETY: inside the memory.
            start: unsafe { self.start.add(at) },
            rows,
            stride,
            width,
            memory: PhantomData,
        }
    }
}
