// Patches that are made together or not at all: those of a site that takes several, and those of a return
// probe, of which some exits without the others would count some of the calls.
#pragma once

#include <span>

#include "engine/inproc/target/build_patches.h"

namespace uscope::engine::inproc {

// Marks the bundles, and takes out those of which a part was refused.
void bundle(BuiltPatches& built, std::span<const SiteRequest> sites);

}  // namespace uscope::engine::inproc
