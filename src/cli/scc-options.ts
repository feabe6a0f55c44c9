import { DEFAULT_EXEMPT_NAMESPACES, type SccSettings } from '../policy/scc/mode.ts';

export const sccOptions = {};

export function sccSettingsOf(_values: unknown): SccSettings {
  return {
    mode: 'report',
    exemptNamespaces: DEFAULT_EXEMPT_NAMESPACES,
    compatibility: {},
    preferUserNamespaces: false,
  };
}
