import { COMPONENT_LABEL, PART_OF, PART_OF_LABEL, ROTATE_ANNOTATION } from '../kube/installation.ts';
import { ApiError } from '../kube/status.ts';
import type { Secret } from '../kube/types.ts';
import { KEYRING_FILES, printKeyring, type Keyring } from '../tls/keyring.ts';
import type { ReconcileContext } from './controller.ts';
import type { SecretPlace } from './serving-certificate-state.ts';

export interface SecretWrite {
  readonly fieldManager: string;
  readonly place: SecretPlace;
  /** As it was read. */
  readonly secret: Secret | undefined;
  readonly keyring: Keyring;
  /** Takes away what somebody asked for. */
  readonly asked: 'answered' | 'open';
}

const LABELS = { 'app.kubernetes.io/name': PART_OF, [PART_OF_LABEL]: PART_OF, [COMPONENT_LABEL]: 'certificates' };

/**
 * Writes the keyring into its Secret, and returns what was written; `undefined` if that holds it already. Rejects with
 * an `ApiError` 409 if somebody else has written in the meantime.
 */
export async function writeKeyring(write: SecretWrite, { cluster }: ReconcileContext): Promise<Secret | undefined> {
  const { fieldManager, place, secret } = write;
  const data = dataOf(secret, write.keyring);
  const metadata = metadataOf(write);
  const isSame = secret !== undefined && hasSame(data, secret.data ?? {});
  if (isSame && metadata === secret.metadata) return undefined;
  // The content of an immutable one can only be replaced.
  if (secret?.immutable === true) await cluster.remove('Secret', place.name, place.namespace);
  if (secret !== undefined && secret.immutable !== true) {
    return cluster.update('Secret', { ...secret, metadata, data }, { fieldManager });
  }
  try {
    const fresh: Secret = { metadata: { ...place, labels: LABELS }, type: 'Opaque', data };
    return await cluster.create('Secret', fresh, { fieldManager });
  } catch (error) {
    // 404 is about what it would be in, which may still come.
    if (!(error instanceof ApiError && error.status.code === 404)) throw error;
    throw new Error(`there is no namespace ${place.namespace}`, { cause: error });
  }
}

function metadataOf({ secret, asked, place }: SecretWrite): NonNullable<Secret['metadata']> {
  const metadata: NonNullable<Secret['metadata']> = secret?.metadata ?? place;
  const { [ROTATE_ANNOTATION]: word, ...annotations } = metadata.annotations ?? {};
  return word === undefined || asked === 'open' ? metadata : { ...metadata, annotations };
}

/** What else the Secret holds stays. */
function dataOf(secret: Secret | undefined, keyring: Keyring): Readonly<Record<string, string>> {
  const others = Object.entries(secret?.data ?? {}).filter(([name]) => !KEYRING_FILES.includes(name));
  const texts = [...printKeyring(keyring)].map(([name, text]) => [name, Buffer.from(text).toString('base64')] as const);
  return Object.fromEntries([...others, ...texts]);
}

function hasSame(a: Readonly<Record<string, string>>, b: Readonly<Record<string, string>>): boolean {
  const others = Object.entries(b);
  return (
    Object.keys(a).length === others.length &&
    others.every(([name, value]) => Object.hasOwn(a, name) && a[name] === value)
  );
}
