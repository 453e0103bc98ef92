// CFCK_CODEC_LIST is the file that lists the codecs; a program with codecs of its own defines
// another one and compiles the sources of this folder again (tests/example_codec).
#pragma once

#ifndef CFCK_CODEC_LIST
#define CFCK_CODEC_LIST "encode/registry/codecs.inc"
#endif
