// The headers that a script includes -> the structs, unions, enums, typedefs and constants they define. What
// a header holds besides (functions, variables) is passed over; a definition that our parser of C cannot take
// is remembered with the reason, for whoever asks for it by name.
#pragma once

#include <map>
#include <string>

#include "lang/c_preprocessor.h"
#include "lang/source.h"
#include "lang/type_source.h"

namespace uscope::lang {

class CTypes;

// Reads one header and what it includes into `into`. `sources` gets the text that is parsed.
void read_header(const HeaderFile& header, CPreprocessor& preprocessor, CTypes& into, SourceSet& sources,
                 const TypeSource& program);

// What a compiler for this machine defines by itself.
void define_usual_macros(CPreprocessor& preprocessor);

}  // namespace uscope::lang
