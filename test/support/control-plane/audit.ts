import { readFile } from 'node:fs/promises';
import type { RecordedCall } from './types.ts';

/** Notes each request for a resource once, when its answer begins or at the latest when it is complete. */
export const AUDIT_POLICY = JSON.stringify({
  apiVersion: 'audit.k8s.io/v1',
  kind: 'Policy',
  omitStages: ['RequestReceived'],
  rules: [
    { level: 'None', users: ['system:apiserver', 'admin'] },
    { level: 'None', nonResourceURLs: ['*'] },
    { level: 'Metadata' },
  ],
});

interface AuditEvent {
  readonly stage: string;
  readonly verb: string;
  readonly user: { readonly username: string };
  readonly objectRef?: {
    readonly resource?: string;
    readonly namespace?: string;
    readonly name?: string;
    readonly apiGroup?: string;
    readonly subresource?: string;
  };
  readonly responseStatus?: { readonly code?: number };
  readonly annotations?: Readonly<Record<string, string>>;
}

/** Reads what the API server has noted. A watch counts when it begins. */
export async function readAuditLog(path: string): Promise<RecordedCall[]> {
  const lines = (await readFile(path, 'utf8')).split('\n');
  // The last line may be in the making.
  return lines.slice(0, -1).flatMap((line) => {
    const { stage, verb, user, objectRef = {}, responseStatus, annotations } = JSON.parse(line) as AuditEvent;
    const counts = verb === 'watch' ? 'ResponseStarted' : 'ResponseComplete';
    const refused = (responseStatus?.code ?? 0) >= 400;
    if (stage !== counts && !(refused && stage === 'ResponseComplete')) return [];
    return {
      user: user.username,
      verb,
      group: objectRef.apiGroup ?? '',
      resource: objectRef.resource ?? '',
      subresource: objectRef.subresource ?? '',
      namespace: objectRef.namespace ?? '',
      name: objectRef.name ?? '',
      code: responseStatus?.code ?? 0,
      isAuthorized: annotations?.['authorization.k8s.io/decision'] === 'allow',
    };
  });
}
