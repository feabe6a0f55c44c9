/** The conformance areas that say which requests SCCs have to do with. */
import assert from 'node:assert/strict';
import type { Operation } from '../../../src/kube/admission.ts';
import { DEFAULT_EXEMPT_NAMESPACES, sccMode } from '../../../src/policy/scc/mode.ts';
import { isExecRequest } from '../../../src/server/webhooks/scc-exec.ts';
import { area, type Area } from './area.ts';

interface NamespaceInput {
  readonly namespace: string;
  readonly labels: Readonly<Record<string, string>>;
}

interface ExecInput {
  readonly operation: Operation;
  readonly resource: string;
  readonly subresource: string;
}

export const SCOPE_AREAS: Readonly<Record<string, Area>> = {
  'admission.namespaceSkip': area<NamespaceInput, { readonly skipped: boolean }>(
    'sccModeOf, with the namespaces that OpenShift exempts',
    ({ namespace: name, labels }, { skipped }) => {
      const exemptNamespaces = [...DEFAULT_EXEMPT_NAMESPACES, 'default'];
      const { mode } = sccMode({ metadata: { name, labels } }, { mode: 'enforce', exemptNamespaces });
      assert.equal(mode, skipped ? 'off' : 'enforce');
    },
  ),
  'admission.execScope': area<ExecInput, { readonly evaluated: boolean }>(
    'isExecRequest',
    ({ operation, resource, subresource: subResource }, { evaluated }) => {
      const request = { operation, resource: { group: '', version: 'v1', resource }, subResource };
      assert.equal(isExecRequest(request), evaluated);
    },
  ),
};
