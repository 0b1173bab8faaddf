// P-ART includes it and takes nothing of it.
#pragma once
