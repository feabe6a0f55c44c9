/** Public API of the package export `./psa`. */
export { psaLevel, type SccLevelOptions } from './scc-level.ts';
