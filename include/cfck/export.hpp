// The symbols that a shared library of cfck exports: those declared with CFCK_API. All others are
// hidden, so that no program can come to depend on them.
#pragma once

// Defined while cfck is compiled, CFCK_NO_EXPORT hides these too: for a static library that becomes
// a part of another shared library and is not to be visible there.
#if defined(__GNUC__) && !defined(CFCK_NO_EXPORT)
#define CFCK_API __attribute__((visibility("default")))
#else
#define CFCK_API
#endif

// Hides the implementation of a class that is declared with CFCK_API.
#if defined(__GNUC__)
#define CFCK_LOCAL __attribute__((visibility("hidden")))
#else
#define CFCK_LOCAL
#endif
