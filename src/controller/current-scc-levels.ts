export { createCurrentSccLevels } from '../cluster/predicted-level.ts';
