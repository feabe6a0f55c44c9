/** Issues, reads and rotates certificates, and checks whether API servers trust the serving certificate. */
export { fingerprint, type KeyPair, keyPairProblem, pemFingerprint, readCertificates } from './certificate-pair.ts';
export { type ClientRejection, rejectClient } from './client.ts';
export { ensureCertificates } from './files.ts';
export { createAuthority, createServing, type ServerNames } from './issue.ts';
export {
  formatKeyring,
  type Keyring,
  KEYRING_FILES,
  type KeyringPlan,
  type KeyringStep,
  planKeyring,
  readKeyring,
  type Rotation,
  ROTATION_REQUESTED,
  ROTATIONS,
  SETTLE_MS,
  takeKeyringStep,
} from './keyring.ts';
export { type ProtocolSettings, protocolSettings, TLS_CIPHER_SUITES, TLS_VERSIONS } from './protocol.ts';
export {
  bundleIncludes,
  decodeBundle,
  distinctCertificates,
  findOtherTrustProblems,
  findTrustProblems,
  isSameBundle,
  planBundle,
  removedCertificates,
  type Service,
  trustProblem,
} from './trust.ts';
