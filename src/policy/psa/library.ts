/** Public API of the package export `./psa`. */
export { psaLevel, type SccLevel, type SccLevelOptions, type SccLevelProfile } from './scc-level.ts';
