//! Tables of objects.
