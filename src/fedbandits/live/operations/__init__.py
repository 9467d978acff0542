"""Operations: processes of members on sites and on one machine."""
